// Numbers for people.

/** Two or three significant figures. */
function short(value: number): string {
  if (value >= 9.95) return value.toFixed(0);
  return value.toFixed(value >= 0.095 ? 1 : 2);
}

export function rate(perSecond: number): string {
  if (perSecond <= 0) return "0/s";
  if (perSecond < 0.01) return "<0.01/s";
  if (perSecond >= 999_500) return `${short(perSecond / 1e6)}M/s`;
  if (perSecond >= 9_995) return `${short(perSecond / 1e3)}k/s`;
  return perSecond >= 999.5 ? `${count(Math.round(perSecond))}/s` : `${short(perSecond)}/s`;
}

/** Never rounded up to 100 %: one failure in a million is a failure. */
export function percent(share: number | null): string {
  if (share === null) return "–";
  if (share >= 1) return "100 %";
  const floored = Math.floor(share * 10_000) / 100;
  return `${floored.toFixed(floored >= 99 || floored < 10 ? 2 : 1)} %`;
}

export function latency(milliseconds: number | null): string {
  if (milliseconds === null) return "–";
  if (milliseconds >= 9_995) return `${(milliseconds / 1000).toFixed(0)} s`;
  if (milliseconds >= 999.5) return `${(milliseconds / 1000).toFixed(1)} s`;
  return milliseconds < 0.095 ? "<0.1 ms" : `${short(milliseconds)} ms`;
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) {
    count /= 1024;
    at += 1;
  }
  return `${at === 0 ? count.toFixed(0) : short(count)} ${units[at]}`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function duration(seconds: number): string {
  if (seconds < 0) return `${duration(-seconds)} ago`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

export function clock(at: number, seconds = true): string {
  const time = new Date(at * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}${seconds ? `:${two(time.getSeconds())}` : ""}`;
}
