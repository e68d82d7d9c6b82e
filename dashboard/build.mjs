// Writes the bundle: `npm run build`. The same sources give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile } from "node:fs/promises";

const out = process.argv[2] ?? "bundle";
await mkdir(out, { recursive: true });
// The licence of the layout asks to be in every copy.
const licence = await readFile("node_modules/@dagrejs/dagre/LICENSE", "utf8");
await build({
  entryPoints: { dashboard: "src/main.ts" },
  banner: { js: `/*! Contains @dagrejs/dagre and @dagrejs/graphlib.\n\n${licence.trim()}\n*/` },
  bundle: true,
  minify: true,
  legalComments: "inline",
  charset: "utf8",
  format: "iife",
  target: ["chrome111", "firefox111", "safari16.4"],
  outdir: out,
});
await build({ entryPoints: { dashboard: "src/page.css" }, minify: true, target: ["chrome111", "firefox111", "safari16.4"], outdir: out });
for (const name of ["index.html", "icon.svg"]) await copyFile(`src/${name}`, `${out}/${name}`);
