// What a client makes of a refusal, as plain fields; null where nothing was refused.
export async function refused(work) {
  try {
    await work();
    return null;
  } catch (error) {
    return { kind: error.constructor.name, message: error.message };
  }
}
