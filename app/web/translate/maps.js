// What POST /attention answers, as matrices: numbers or base64, whichever the server sent.

const EMPTY = { layers: [], heads: [], rows: 0, columns: 0, values: new Float32Array() };

// kind -> {layers, heads, rows, columns, values}, values being [layer][head][row][column] without the brackets.
export function readMaps(answer) {
  const maps = {};
  for (const [kind, each] of Object.entries(answer.attention ?? {})) {
    const [, , rows, columns] = each.shape;
    maps[kind] = { layers: each.layers, heads: each.heads, rows, columns, values: numbers(each) };
  }
  const rollout = answer.rollout?.cross;
  if (rollout?.length) {
    const values = Float32Array.from(rollout.flat());
    maps.rollout = { layers: [0], heads: [0], rows: rollout.length, columns: rollout[0].length, values };
  }
  return maps;
}

function numbers(each) {
  if (each.weights) return Float32Array.from(each.weights.flat(3));
  const bytes = Uint8Array.from(atob(each.data), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const [width, read] = {
    u8: [1, (at) => view.getUint8(at)],
    u16: [2, (at) => view.getUint16(at, true)],
    f32: [4, (at) => view.getFloat32(at, true)],
  }[each.encoding];
  const { scale } = each;
  return Float32Array.from({ length: bytes.length / width }, (_, i) => read(i * width) * scale);
}

// The matrix of one head; layer or head -1 is the mean over all of them.
export function matrixOf(map, layer, head) {
  if (!map) return EMPTY.values;
  const layers = layer < 0 ? map.layers.map((_, i) => i) : [map.layers.indexOf(layer)].filter((i) => i >= 0);
  const heads = head < 0 ? map.heads.map((_, i) => i) : [map.heads.indexOf(head)].filter((i) => i >= 0);
  const size = map.rows * map.columns;
  const mean = new Float32Array(size);
  const count = layers.length * heads.length;
  for (const l of layers) {
    for (const h of heads) {
      const start = (l * map.heads.length + h) * size;
      for (let i = 0; i < size; i += 1) mean[i] += map.values[start + i] / count;
    }
  }
  return mean;
}

// The tokens of a map's rows and columns. A row of `cross` is the step that predicts an output token, and is named so;
// within the decoder rows and columns are what was read.
export function axesOf({ source, target }, kind) {
  if (kind === "encoder") return { rows: source.tokens, columns: source.tokens };
  if (kind === "decoder") return { rows: target.input_tokens, columns: target.input_tokens };
  return { rows: target.output_tokens, columns: source.tokens };
}

export function nameOf(token) {
  return token.text.trim() || token.piece;
}
