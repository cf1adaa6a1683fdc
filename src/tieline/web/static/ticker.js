// One timer shared by all elements that show a running time.

const watchers = new Set();
let timer = 0;

/** Call a function every second, until the returned function is called. */
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
