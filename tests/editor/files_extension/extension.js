// Offers the files of the test's machine as `tieline-test:/path`, and as `vscode-vfs:/path`, the only scheme of a web
// workbench that needs the user's trust. The server that serves this extension reads and writes them.

const vscode = require("vscode");

const SCHEMES = ["tieline-test", "vscode-vfs"];

exports.activate = (context) => {
  const files = new Files(context.extensionUri);
  for (const scheme of SCHEMES)
    context.subscriptions.push(vscode.workspace.registerFileSystemProvider(scheme, files));
};

class Files {
  #base;
  #changed = new vscode.EventEmitter();
  onDidChangeFile = this.#changed.event;

  constructor({ scheme, authority }) {
    this.#base = `${scheme}://${authority}/files`;
  }

  watch() {
    return new vscode.Disposable(() => {});
  }

  async stat(uri) {
    return (await this.#send("GET", "stat", uri)).json();
  }

  async readDirectory(uri) {
    return (await this.#send("GET", "list", uri)).json();
  }

  async readFile(uri) {
    return new Uint8Array(await (await this.#send("GET", "read", uri)).arrayBuffer());
  }

  async writeFile(uri, content) {
    await this.#send("PUT", "write", uri, content);
    this.#changed.fire([{ type: vscode.FileChangeType.Changed, uri }]);
  }

  createDirectory() {
    throw vscode.FileSystemError.NoPermissions();
  }

  delete() {
    throw vscode.FileSystemError.NoPermissions();
  }

  rename() {
    throw vscode.FileSystemError.NoPermissions();
  }

  async #send(method, action, uri, body) {
    const response = await fetch(`${this.#base}/${action}?path=${encodeURIComponent(uri.path)}`, { method, body });
    if (response.status === 404) throw vscode.FileSystemError.FileNotFound(uri);
    if (!response.ok) throw vscode.FileSystemError.Unavailable(uri);
    return response;
  }
}
