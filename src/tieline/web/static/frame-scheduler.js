// Runs functions that change the page once per animation frame, so that frequent updates cause only one layout.

const waiting = new Set();
const afterwards = new Set();
let isScheduled = false;

/** Run a function in the next frame, once, even if it is scheduled several times. */
export function nextFrame(change) {
  waiting.add(change);
  schedule();
}

/** Run a function after all functions of `nextFrame`, because it depends on the new layout. */
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
