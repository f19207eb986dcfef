// The page in a frame of a notebook, out of which it can reach nothing; it says which points are selected, and no more.
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = "width: 100%; height: 640px; border: 0";
  frame.srcdoc = new TextDecoder().decode(model.get("_page"));
  const heard = (event) => {
    if (event.source !== frame.contentWindow || event.data?.nearfar !== "selected") return;
    model.set("_points", new DataView(Uint32Array.from(event.data.points).buffer));
    model.save_changes();
  };
  window.addEventListener("message", heard);
  el.append(frame);
  return () => window.removeEventListener("message", heard);
}
export default { render };
