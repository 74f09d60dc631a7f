// What POST /gates answers, as curves and matrices.

// {characters: [{text, probability, rank, top}], gates: [names], convention, layers: [{layer, units, curves, values}]};
// values[gate] is {values: units * characters numbers, unit after unit, low, high}.
export function readTrace(answer) {
  return { characters: [], gates: [], convention: answer.formula ?? "", layers: [] };
}
