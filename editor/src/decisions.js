// Decides what to do after looking for the gateway. The cases form a table, so that each one is visible and tested.
//
//   found      may start  started before      action
//   tieline    -          -                   use
//   older      -          -                   fail: update it
//   other      -          -                   fail: another program uses the port
//   silent     -          -                   wait: a gateway may be busy
//   none       yes        no, or it was ours  start
//   none       yes        it was not ours     wait: its owner may be restarting it
//   none       no         -                   wait, with the reason
//
// A gateway that keeps failing is started at most `MOST_STARTS` times within `START_PERIOD`.

"use strict";

const MOST_STARTS = 3;
const START_PERIOD = 60_000;

/**
 * @typedef {object} Situation
 * @property {string} cannotStart why the extension may not start a gateway; empty if it may
 * @property {boolean} wasForeign whether the gateway that was used last was started by other means
 * @property {number[]} starts the times of earlier starts, in milliseconds
 * @property {number} now
 */

/**
 * @typedef {{action: "use", hello: import("./hello").Found} | {action: "start"} | {action: "wait", reason: string}
 *   | {action: "fail", reason: string}} Decision
 */

/**
 * @param {import("./hello").Answer} answer
 * @param {string} address
 * @param {Situation} situation
 * @returns {Decision}
 */
function decide(answer, address, { cannotStart, wasForeign, starts, now }) {
  switch (answer.kind) {
    case "tieline":
      return { action: "use", hello: answer };
    case "older":
      return {
        action: "fail",
        reason:
          `The gateway at ${address} is version ${answer.version || "unknown"}, which this extension cannot use. ` +
          "Update it, for example with “uv tool upgrade tieline”, and restart it.",
      };
    case "other":
      return {
        action: "fail",
        reason: `Another program answers at ${address}: ${answer.detail} Stop it, or set another port in tieline.url.`,
      };
    case "silent":
      return { action: "wait", reason: `The program at ${address} does not answer. If it is the gateway, it is busy.` };
    case "none":
      if (cannotStart) return { action: "wait", reason: cannotStart };
      if (wasForeign) return { action: "wait", reason: `The gateway at ${address} stopped. Waiting for its restart.` };
      if (starts.filter((time) => now - time < START_PERIOD).length >= MOST_STARTS)
        return { action: "fail", reason: "The gateway keeps stopping. “Tieline: Show Log” says more." };
      return { action: "start" };
  }
}

module.exports = { decide, MOST_STARTS, START_PERIOD };
