"use strict";
// Names on the map, each near its place and where it hides least, and the soft density behind the groups. As in
// plots/names.py, but in a moment: a name tries a few rings of places around its own, the most important name first.
const mapNames = (() => {
  const CELLS = 256; // a side of the grid that tells where points are
  const RINGS = [0, 1, 16, 34, 56, 84, 116], WAYS = 16; // pixels from the edge of the name, and directions
  const HIDES = 3, AWAY = 1 / 60, STAYS = 0.25; // costs: of hiding points, of a pixel away; gain of not moving
  const LED = 22; // pixels from which a line leads to the place

  // Sums of the cells with points, so that a box is looked up in four steps.
  function grid(x, y, shown) {
    const counts = new Float32Array((CELLS + 1) * (CELLS + 1)), n = x.length;
    let [west, east, south, north] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      west = Math.min(west, x[i]); east = Math.max(east, x[i]);
      south = Math.min(south, y[i]); north = Math.max(north, y[i]);
    }
    const side = Math.max(east - west, north - south) / CELLS || 1;
    const at = (value, low) => Math.min(CELLS - 1, Math.floor((value - low) / side));
    for (let i = 0; i < n; i++) if (shown(i)) counts[(at(y[i], south) + 1) * (CELLS + 1) + at(x[i], west) + 1] = 1;
    for (let r = 1; r <= CELLS; r++) for (let c = 1; c <= CELLS; c++) {
      const k = r * (CELLS + 1) + c;
      counts[k] += counts[k - 1] + counts[k - CELLS - 1] - counts[k - CELLS - 2];
    }
    const corner = (value, low) => Math.max(0, Math.min(CELLS, Math.round((value - low) / side)));
    return (left, bottom, right, top) => { // the share of a box that is covered
      const [a, b, c, d] = [corner(left, west), corner(bottom, south), corner(right, west), corner(top, south)];
      const all = (right - left) * (top - bottom) / (side * side);
      const sum = counts[d * (CELLS + 1) + c] - counts[b * (CELLS + 1) + c] - counts[d * (CELLS + 1) + a] + counts[b * (CELLS + 1) + a];
      return all > 0 ? Math.min(1, sum / all) : 0;
    };
  }

  // names: [{at: [x, y], size: [w, h], last}], in pixels; hidden(left, top, right, bottom) is a share.
  function place(names, width, height, hidden) {
    const taken = [], placed = [];
    for (const name of names) {
      const [cx, cy] = name.at, [w, h] = name.size;
      let best = null, least = Infinity;
      for (const [ring, gap] of RINGS.entries()) {
        for (let way = 0; way < (ring ? WAYS : 1); way++) {
          const turn = (2 * Math.PI * way) / WAYS;
          const px = ring ? cx + Math.cos(turn) * (w / 2 + gap) : cx, py = ring ? cy + Math.sin(turn) * (h / 2 + gap) : cy;
          const [left, top, right, bottom] = [px - w / 2, py - h / 2, px + w / 2, py + h / 2];
          if (left < 0 || top < 0 || right > width || bottom > height) continue;
          const code = ring * WAYS + way;
          const cost = HIDES * hidden(left, top, right, bottom) + AWAY * gap - (name.last === code ? STAYS : 0);
          if (cost >= least || taken.some((t) => left < t[2] && right > t[0] && top < t[3] && bottom > t[1])) continue;
          [least, best] = [cost, { x: px, y: py, code, box: [left, top, right, bottom] }];
        }
        if (best && least < AWAY * (RINGS[ring + 1] ?? Infinity) - STAYS) break; // no ring farther out is better
      }
      name.last = best ? best.code : undefined;
      if (!best) continue;
      taken.push(best.box);
      const [left, top, right, bottom] = best.box;
      const edge = [Math.max(left, Math.min(cx, right)), Math.max(top, Math.min(cy, bottom))];
      placed.push({ name, x: best.x, y: best.y, line: Math.hypot(edge[0] - cx, edge[1] - cy) > LED ? [edge, name.at] : null });
    }
    return placed;
  }

  // A small picture of the density of the groups, each cell in the mean colour of its points; null without any.
  function glow(x, y, colourOf, cells = 200, edge = 12) {
    const wide = cells + 2 * edge, layers = [0, 1, 2, 3].map(() => new Float32Array(wide * wide));
    let [west, east, south, north] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      west = Math.min(west, x[i]); east = Math.max(east, x[i]);
      south = Math.min(south, y[i]); north = Math.max(north, y[i]);
    }
    const side = Math.max(east - west, north - south) / cells || 1;
    for (let i = 0; i < x.length; i++) {
      const colour = colourOf(i);
      if (!colour) continue;
      const c = Math.min(cells - 1, Math.floor((x[i] - west) / side)) + edge, r = Math.min(cells - 1, Math.floor((y[i] - south) / side)) + edge;
      const k = (wide - 1 - r) * wide + c;
      layers[0][k] += 1;
      for (let b = 0; b < 3; b++) layers[b + 1][k] += colour[b];
    }
    for (const layer of layers) for (let times = 0; times < 4; times++) blur(layer, wide, 2);
    const dense = layers[0].filter((value) => value > 1e-2).sort();
    if (!dense.length) return null;
    const full = dense[Math.floor(0.85 * (dense.length - 1))];
    const image = new ImageData(wide, wide);
    for (let k = 0; k < wide * wide; k++) {
      const count = layers[0][k];
      if (count <= 1e-6) continue;
      for (let b = 0; b < 3; b++) image.data[4 * k + b] = layers[b + 1][k] / count;
      const share = Math.min(1, count / full);
      image.data[4 * k + 3] = 80 * share * (2 - share);
    }
    const picture = document.createElement("canvas");
    picture.width = picture.height = wide;
    picture.getContext("2d").putImageData(image, 0, 0);
    const [left, bottom] = [west - edge * side, south - edge * side];
    return { picture, left, bottom, right: left + wide * side, top: bottom + wide * side };
  }
  function blur(layer, wide, reach) { // the mean of 2 reach + 1 cells, along rows and then along columns
    const line = new Float32Array(wide);
    for (const [step, next] of [[1, wide], [wide, 1]]) for (let row = 0; row < wide; row++) {
      const start = row * next;
      let sum = 0;
      for (let k = -reach; k < wide; k++) {
        if (k + reach < wide) sum += layer[start + (k + reach) * step];
        if (k - reach - 1 >= 0) sum -= layer[start + (k - reach - 1) * step];
        if (k >= 0) line[k] = sum / (2 * reach + 1);
      }
      for (let k = 0; k < wide; k++) layer[start + k * step] = line[k];
    }
  }
  return { grid, place, glow };
})();
