// What POST /gates answers, as curves and matrices.

// {characters: [{text, probability, rank, top}], gates: [names], convention, layers: [{layer, units, curves, values}]};
// values[gate] is {values: units * characters numbers, unit after unit, low, high}.
export function readTrace(answer) {
  const { tokens, steps, gates, summaries, model } = answer;
  // After token t the model expected what came as token t + 1.
  const characters = tokens.map((token, at) => character(token.text || token.piece, at ? steps[at - 1] : null));
  const names = Object.keys(gates);
  const layers = summaries.map((summary, index) => ({
    layer: summary.layer,
    units: gates[names[0]].units[index],
    curves: curvesOf(summary, model.bounds),
    values: Object.fromEntries(names.map((name) => [name, byUnit(gates[name].values[index], model.bounds[name])])),
  }));
  return { characters, gates: names, bounds: model.bounds, cell: model.cell, convention: model.convention, layers };
}

function character(text, step) {
  if (!step || step.logprob === null) return { text, probability: null };
  const top = (step.top ?? []).map((each) => ({ text: each.text || each.piece, probability: Math.exp(each.logprob) }));
  return { text, probability: Math.exp(step.logprob), rank: step.rank, top };
}

function curvesOf({ mean, hidden_change: change }, bounds) {
  const means = Object.entries(mean).filter(([name]) => name !== "h" && name !== "c");
  const curve = (gate, values, [low, high]) => ({ gate, values, low, high });
  return [...means.map(([name, values]) => curve(name, values, bounds[name] ?? ends(values))),
    curve("|Δh|", change, [0, Math.max(...change)])];
}

// [step][unit] -> unit after unit.
function byUnit(rows, bounds) {
  const units = rows[0]?.length ?? 0;
  const values = Array.from({ length: units }, (_, unit) => rows.map((row) => row[unit])).flat();
  const [low, high] = bounds ?? ends(values);
  return { values, low, high };
}

// What has no bounds, such as c, takes its own largest.
function ends(values) {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
  return [-largest, largest];
}
