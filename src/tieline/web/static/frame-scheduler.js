// Runs changes once per animation frame, so that frequent updates cause only one layout.

const waiting = new Set();
const afterwards = new Set();
let isAsked = false;

/** Run a change in the next frame; scheduling it twice runs it once. */
export function nextFrame(change) {
  waiting.add(change);
  ask();
}

/** Run a function after the changes of the frame, because it depends on the new layout. */
export function afterFrame(change) {
  afterwards.add(change);
  ask();
}

function ask() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(run);
}

function run() {
  isAsked = false;
  for (const set of [waiting, afterwards]) {
    const changes = [...set];
    set.clear();
    for (const change of changes) change();
  }
}
