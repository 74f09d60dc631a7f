// The documentation at /docs: Swagger UI, with the groups of other protocols closed and the key asked for when it is
// needed. What a call has stored is filled into the calls that need it: a glossary's id, a document's id and key.

const home = document.getElementById("docs");
const EXAMPLE_KEY = "0CB0054F1C132C16"; // of DeepLDocumentKey
let documentKey;
let ui;

function operations() {
  const found = [];
  ui.specSelectors.specJson().get("paths").forEach((methods, path) => {
    methods.forEach((operation, method) => found.push({ path, method, operation }));
  });
  return found;
}

function closeOtherProtocols() {
  const { hash, pathname } = location; // closing a group would take the address of an operation for itself
  ui.specSelectors.specJson().get("tags").forEach((tag) => {
    const name = tag.get("name");
    if (tag.get("x-protocol") && !hash.startsWith(`#/${name}`)) ui.layoutActions.show(["operations-tag", name], false);
  });
  history.replaceState(null, "", hash || pathname);
}

function fillIn(answer, from) {
  const stored = [
    ["/v2/glossaries/", "glossary_id", from.includes("/v2/") && answer.glossary_id],
    ["/v3/glossaries/", "glossary_id", from.includes("/v3/") && answer.glossary_id],
    ["/v2/document/", "document_id", answer.document_id],
    ["/download_file/", "name", answer.translatedFileUrl?.split("/").pop().split("?")[0]],
  ];
  for (const { path, method, operation } of operations()) {
    const [, name, value] = stored.find(([start]) => path.startsWith(start)) ?? [];
    if (!value) continue;
    const parameter = operation.get("parameters").find((each) => each.get("name") === name);
    ui.specActions.changeParamByIdentity([path, method], parameter, value, false);
  }
  documentKey = answer.document_key ?? documentKey;
}

// Swagger UI writes a body's example over a value that is set here, so that the example's key becomes the last document's.
function asked(request) {
  if (documentKey && typeof request.body === "string") {
    request.body = request.body.replace(EXAMPLE_KEY, documentKey);
  }
  return request;
}

function answered(response) {
  const body = response.body;
  if (response.ok && (body?.glossary_id || body?.document_key || body?.translatedFileUrl)) fillIn(body, response.url);
  if (response.status === 401 || body?.code === "key_missing") {
    ui.authActions.showDefinitions(ui.authSelectors.definitionsToAuthorize());
  }
  return response;
}

ui = SwaggerUIBundle({
  url: home.dataset.openapi,
  domNode: home,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
  layout: "BaseLayout",
  requestInterceptor: asked,
  responseInterceptor: answered,
  onComplete: closeOtherProtocols,
});
