// Tells whoever shows a running time that a second has passed, with one timer for all of them.

const watchers = new Set();
let timer = 0;

/** Call this every second until the returned function is called. */
export function everySecond(tick) {
  watchers.add(tick);
  if (!timer) timer = setInterval(() => watchers.forEach((watcher) => watcher()), 1000);
  return () => {
    watchers.delete(tick);
    if (watchers.size === 0) {
      clearInterval(timer);
      timer = 0;
    }
  };
}
