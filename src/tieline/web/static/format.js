// Formats numbers, times and identifiers for display.

const DAY = 86_400;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const year = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const now = () => Date.now() / 1000;

/** Format a time in the past, given in seconds since 1970: "now", "4 min", "14:05", "yesterday", "3 May". */
export function formatAge(at) {
  const age = now() - at;
  const date = new Date(at * 1000);
  if (age < 60) return "now";
  if (age < 3600) return `${Math.floor(age / 60)} min`;
  const midnight = new Date().setHours(0, 0, 0, 0) / 1000;
  if (at >= midnight) return clock.format(date);
  if (at >= midnight - DAY) return "yesterday";
  return date.getFullYear() === new Date().getFullYear() ? day.format(date) : year.format(date);
}

export const formatDateTime = (at) => full.format(new Date(at * 1000));
export const formatTime = (at) => seconds.format(new Date(at * 1000));

/** Format a duration in seconds: "40 ms", "2.3 s", "1 m 20 s", "3 m". */
export function formatDuration(length) {
  if (length === null || length === undefined) return "";
  if (length < 1) return `${Math.max(1, Math.round(length * 1000))} ms`;
  if (length < 10) return `${length.toFixed(1)} s`;
  if (length < 60) return `${Math.round(length)} s`;
  const whole = Math.round(length);
  if (whole < 3600) return `${Math.floor(whole / 60)} m${whole % 60 ? ` ${whole % 60} s` : ""}`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
}

/** Format a remaining time in seconds: "1:45". */
export function formatCountdown(length) {
  const left = Math.max(0, Math.ceil(length));
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}

/** Shorten a number: "940", "12.4k", "1.2M". */
export function formatCount(count) {
  if (count < 1000) return String(count);
  if (count < 99_950) return `${(count / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (count < 999_500) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1).replace(/\.0$/, "")}M`;
}

/** Format a count with a noun: "1 line", "3 lines". */
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Return the number of all tokens of the prompt, including those from the cache. */
export const promptTokens = (usage) => (usage?.input ?? 0) + (usage?.cache_read ?? 0) + (usage?.cache_write ?? 0);

/** Format the tokens in and out: "1.2k in, 310 out". */
export const formatUsage = (usage) => `${formatCount(promptTokens(usage))} in, ${formatCount(usage.output ?? 0)} out`;

/** Turn a protocol identifier into a label: "allow_once" → "Allow once". */
export function humanize(word) {
  const spaced = word
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase();
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}
