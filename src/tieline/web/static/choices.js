// What can be chosen for a conversation: models of every backend, modes of working, how hard to think.

import { label } from "./words.js";

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const REMEMBERED = "tieline-choice";

/** The models as options, grouped by backend; what is not ready comes last and says so. */
export function modelOptions({ models, backends }) {
  const ready = new Map(backends.map((backend) => [backend.name, backend.ready]));
  const order = (model) => (ready.get(model.backend) === false ? 1 : 0);
  return [...models]
    .sort(
      (one, other) =>
        order(one) - order(other) ||
        (one.backend === other.backend ? 0 : firstOf(models, one.backend) - firstOf(models, other.backend)),
    )
    .map((model) => ({
      value: model.id,
      label: model.title || bare(model.id),
      hint: model.title && model.title !== bare(model.id) ? bare(model.id) : "",
      group: ready.get(model.backend) === false ? `${model.backend} (not ready)` : model.backend,
      note: model.is_agent ? "agent" : "",
    }));
}

/** The modes of a model; none if it has only one way of working. */
export function modeOptions(model) {
  const modes = model?.modes ?? [];
  return modes.length
    ? [
        { value: null, label: "Default mode", button: "Mode" },
        ...modes.map((mode) => ({ value: mode, label: label(mode), hint: ABOUT[mode] ?? "" })),
      ]
    : [];
}

export function effortOptions() {
  return [
    { value: null, label: "Default effort", button: "Effort" },
    ...EFFORTS.map((effort) => ({
      value: effort,
      label: effort === "xhigh" ? "Extra high" : label(effort),
      hint: effort === "none" ? "no thinking" : "",
    })),
  ];
}

/** What the next new conversation begins with. */
export function rememberedChoice({ models }) {
  let choice = {};
  try {
    choice = JSON.parse(localStorage.getItem(REMEMBERED)) ?? {};
  } catch {
    // Nothing usable is remembered.
  }
  if (!models.some(({ id }) => id === choice.model)) choice.model = models[0]?.id ?? null;
  return { model: choice.model, mode: choice.mode ?? null, effort: choice.effort ?? null };
}

export function rememberChoice({ model, mode, effort }) {
  localStorage.setItem(REMEMBERED, JSON.stringify({ model, mode, effort }));
}

/** The name of a model without its backend. */
export const bare = (id) => id.slice(id.indexOf("/") + 1);

const ABOUT = { chat: "only talk", plan: "look, ask, plan", agent: "do it", ask: "answer, change nothing" };

const firstOf = (models, backend) => models.findIndex((model) => model.backend === backend);
