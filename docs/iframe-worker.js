/* A page opened from disk may start no Worker: there, a script in a hidden frame does the work of one. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      this.started = new Promise((done) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        this.inside.document.head.append(script);
      });
    }
    postMessage(data) {
      this.started.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
  };
}
