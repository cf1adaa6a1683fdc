// Gathers changes and makes them once per frame: however often text comes, the page is laid out once.

const waiting = new Set();
const afterwards = new Set();
let isAsked = false;

/** Call this in the next frame; asking twice is asking once. */
export function nextFrame(change) {
  waiting.add(change);
  ask();
}

/** Call this when the changes of the frame are made, for what depends on the new layout. */
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
