// Runs changes once per animation frame, so that frequent updates cause only one layout.

const waiting = new Set();
const afterwards = new Set();
let isScheduled = false;

/** Run a change in the next frame; scheduling it twice runs it once. */
export function nextFrame(change) {
  waiting.add(change);
  schedule();
}

/** Run a function after the changes of the frame, because it depends on the new layout. */
export function afterFrame(change) {
  afterwards.add(change);
  schedule();
}

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(run);
}

function run() {
  isScheduled = false;
  for (const set of [waiting, afterwards]) {
    const changes = [...set];
    set.clear();
    for (const change of changes) change();
  }
}
