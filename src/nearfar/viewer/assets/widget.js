// The page in a frame of a notebook, out of which it can reach nothing; it says which points are selected, and is told.
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = "width: 100%; height: 640px; border: 0";
  frame.srcdoc = new TextDecoder().decode(model.get("_page"));
  let said = null; // by the page, which need not be told
  const tell = () => {
    const packed = model.get("_points");
    if (packed === said) return;
    const points = new Uint32Array(packed.buffer.slice(packed.byteOffset, packed.byteOffset + packed.byteLength));
    frame.contentWindow?.postMessage({ nearfar: "select", points }, "*");
  };
  const heard = (event) => {
    if (event.source !== frame.contentWindow) return;
    if (event.data?.nearfar === "ready" && model.get("_points").byteLength) tell();
    if (event.data?.nearfar !== "selected") return;
    said = new DataView(Uint32Array.from(event.data.points).buffer);
    model.set("_points", said);
    model.save_changes();
  };
  window.addEventListener("message", heard);
  model.on("change:_points", tell);
  el.append(frame);
  return () => {
    window.removeEventListener("message", heard);
    model.off("change:_points", tell);
  };
}
export default { render };
