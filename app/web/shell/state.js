// One store for all that the rooms share. Views of the same key are linked because they watch the same key.

export function createStore(initial) {
  let state = { ...initial };
  const watchers = [];
  const pending = new Set();
  let telling = false;

  function set(change) {
    const changed = Object.keys(change).filter((key) => state[key] !== change[key]);
    if (!changed.length) return;
    state = { ...state, ...change };
    changed.forEach((key) => pending.add(key));
    if (!telling) tell();
  }

  // A watcher may set further keys; those are told in the next round, so that each sees a whole state.
  function tell() {
    telling = true;
    try {
      while (pending.size) {
        const keys = new Set(pending);
        pending.clear();
        for (const each of [...watchers]) {
          if (each.alive && (!each.keys || each.keys.some((key) => keys.has(key)))) each.listener(state, keys);
        }
      }
    } finally {
      telling = false;
    }
  }

  function watch(keys, listener) {
    const each = { keys, listener, alive: true };
    watchers.push(each);
    listener(state, new Set(keys ?? []));
    return () => {
      each.alive = false;
      watchers.splice(watchers.indexOf(each), 1);
    };
  }

  return { get: () => state, set, watch };
}
