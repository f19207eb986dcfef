#!/bin/sh
# Rebuilds scatterplot.js and scatterplot-licences.txt: regl-scatterplot and what it needs, in one file.
# Needs Node.js with npm. Run it in this folder; versions are pinned here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y > /dev/null
npm install --silent --no-package-lock --save-exact \
  regl-scatterplot@1.16.0 regl@2.1.1 pub-sub-es@3.0.0 @flekschas/utils@0.33.0 dom-2d-camera@2.2.6 \
  camera-2d-simple@3.0.0 earcut@3.2.4 gl-matrix@3.4.4 regl-line@1.1.1 esbuild@0.28.2
cat > entry.js <<'JS'
import createScatterplot from "regl-scatterplot";
globalThis.createScatterplot = createScatterplot;
JS
npx esbuild entry.js --bundle --minify --format=iife --legal-comments=none --charset=ascii --log-level=warning \
  --outfile="$here/scatterplot.js"
sed -i 's#please see: https://[a-z.]*/package/#please see the package #' "$here/scatterplot.js"
cat > "$here/scatterplot-licences.txt" <<'TEXT'
scatterplot.js holds regl-scatterplot and what it needs. regl-scatterplot holds two parts of others:
KDBush 4.0.2 (ISC licence, copyright Vladimir Agafonkin 2018) and, in @flekschas/utils, the Douglas-Peucker algorithm of
simplify-js (BSD 2-clause licence, copyright Vladimir Agafonkin 2013).

TEXT
for name in regl-scatterplot regl pub-sub-es @flekschas/utils dom-2d-camera camera-2d-simple earcut gl-matrix regl-line; do
  version=$(node -p "require('./node_modules/$name/package.json').version")
  printf '%s\n%s %s\n\n' "----------------------------------------" "$name" "$version" >> "$here/scatterplot-licences.txt"
  cat node_modules/$name/LICENSE* >> "$here/scatterplot-licences.txt"
  printf '\n' >> "$here/scatterplot-licences.txt"
done
