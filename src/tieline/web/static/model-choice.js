// The choices for a conversation: model, mode and effort.

import { humanize } from "./format.js";
import { lasting } from "./page-storage.js";

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const REMEMBERED = "tieline-choice";

/** Return the models as picker options, grouped by backend. Backends that are not ready come last. */
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
      label: model.title || modelName(model.id),
      hint: model.title && model.title !== modelName(model.id) ? modelName(model.id) : "",
      group: ready.get(model.backend) === false ? `${model.backend} (not ready)` : model.backend,
      note: model.is_agent ? "agent" : "",
    }));
}

/** Return the modes of a model as picker options; an empty list if it has none. */
export function modeOptions(model) {
  const modes = model?.modes ?? [];
  return modes.length
    ? [
        { value: null, label: "Default mode", button: "Mode" },
        ...modes.map((mode) => ({ value: mode, label: humanize(mode), hint: ABOUT[mode] ?? "" })),
      ]
    : [];
}

export function effortOptions() {
  return [
    { value: null, label: "Default effort", button: "Effort" },
    ...EFFORTS.map((effort) => ({
      value: effort,
      label: effort === "xhigh" ? "Extra high" : humanize(effort),
      hint: effort === "none" ? "no thinking" : "",
    })),
  ];
}

/** Return the saved choice of model, mode and effort, which is used for a new conversation.
 *
 * Without a saved choice, it is the gateway's default model. */
export function rememberedChoice({ models, default_model: standard = null }) {
  let choice = {};
  try {
    choice = JSON.parse(lasting.getItem(REMEMBERED)) ?? {};
  } catch {
    // Nothing usable is saved.
  }
  const known = (wanted) => models.some(({ id }) => id === wanted);
  const { model, mode = null, effort = null } = choice;
  if (known(model)) return { model, mode, effort };
  // The default model may not have the mode that was chosen for another.
  return { model: known(standard) ? standard : (models[0]?.id ?? null), mode: null, effort };
}

export function rememberChoice({ model, mode, effort }) {
  lasting.setItem(REMEMBERED, JSON.stringify({ model, mode, effort }));
}

/** Return the name of a model without its backend. */
export const modelName = (id) => id.slice(id.indexOf("/") + 1);

const ABOUT = {
  chat: "no tools",
  plan: "read, ask, then propose a plan",
  agent: "all tools",
  ask: "answer without changes",
};

const firstOf = (models, backend) => models.findIndex((model) => model.backend === backend);
