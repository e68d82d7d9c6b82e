// Chromium without a window, driven through its DevTools pipe: no other package is needed.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ANSWER_TIMEOUT_MILLISECONDS = 30_000;

export async function browser() {
  const profile = await mkdtemp(join(tmpdir(), "leno-dashboard-"));
  const child = spawn("chromium", ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", `--user-data-dir=${profile}`], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const [to, from] = [child.stdio[3], child.stdio[4]];
  const waiting = new Map();
  const listeners = [];
  let next = 1;
  let rest = "";
  from.setEncoding("utf8");
  from.on("data", (text) => {
    const messages = (rest + text).split("\0");
    rest = messages.pop();
    for (const message of messages.map((one) => JSON.parse(one))) {
      const pending = waiting.get(message.id);
      waiting.delete(message.id);
      if (pending) message.error ? pending.reject(new Error(message.error.message)) : pending.resolve(message.result);
      else for (const listener of listeners) listener(message);
    }
  });
  const call = (method, params = {}, sessionId) => new Promise((resolve, reject) => {
    const id = next++;
    const timer = setTimeout(() => reject(new Error(`${method}: no answer`)), ANSWER_TIMEOUT_MILLISECONDS);
    waiting.set(id, { resolve: (value) => { clearTimeout(timer); resolve(value); }, reject: (error) => { clearTimeout(timer); reject(error); } });
    to.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  });
  const close = async () => {
    await call("Browser.close").catch(() => child.kill());
    await new Promise((done) => (child.exitCode === null ? child.once("exit", done) : done()));
    await rm(profile, { recursive: true, force: true });
  };
  return { call, close, page: (options) => page(call, listeners, options) };
}

/** A page of its own; `errors` has everything on its console that is not plain talk. */
async function page(call, listeners, { width = 1280, height = 800, dark = false } = {}) {
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => call(method, params, sessionId);
  const errors = [];
  listeners.push(({ sessionId: of, method, params }) => {
    if (of !== sessionId) return;
    if (method === "Runtime.exceptionThrown") errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level !== "info" && params.entry.level !== "verbose") errors.push(params.entry.text);
    if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type)) errors.push(JSON.stringify(params.args));
  });
  for (const domain of ["Page", "Runtime", "Log"]) await send(`${domain}.enable`);
  await send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }, { name: "prefers-reduced-motion", value: "reduce" }] });
  const run = async (expression) => {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const until = async (expression, seconds = 15) => {
    const end = Date.now() + seconds * 1000;
    for (;;) {
      const value = await run(`(() => { const value = (${expression}); return value instanceof Node ? true : value; })()`);
      if (value) return value;
      if (Date.now() > end) throw new Error(`not true within ${seconds} s: ${expression}`);
      await new Promise((done) => setTimeout(done, 30));
    }
  };
  const key = async (name, text) => {
    for (const type of ["keyDown", "keyUp"]) await send("Input.dispatchKeyEvent", { type, key: name, code: name, text: type === "keyDown" ? text : undefined, windowsVirtualKeyCode: { Tab: 9, Enter: 13, Escape: 27 }[name] ?? 0 });
  };
  return {
    send, run, until, key, errors,
    open: async (url) => {
      await send("Page.navigate", { url });
      await until("document.body && document.body.dataset.ready === 'true'");
    },
    picture: async () => Buffer.from((await send("Page.captureScreenshot", { format: "png" })).data, "base64"),
    close: () => call("Target.closeTarget", { targetId }),
  };
}
