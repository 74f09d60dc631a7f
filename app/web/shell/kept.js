// Choices about the page itself, in this browser; where storage is refused they last as long as the page.

const memory = new Map();

export function kept(name) {
  try {
    return localStorage.getItem(`parlance.${name}`) ?? memory.get(name) ?? null;
  } catch {
    return memory.get(name) ?? null;
  }
}

export function keep(name, value) {
  memory.set(name, value);
  try {
    localStorage.setItem(`parlance.${name}`, value);
  } catch {
    // storage is full or refused: the page works without
  }
}
