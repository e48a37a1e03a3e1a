// Stops a script that runs on a Node older than the project's own (24, brought by the `node` package).
// `npm ci --ignore-scripts`, or calling node_modules/.bin tools directly, would use the system's Node in silence.
// Plain JavaScript, because an old Node must be able to read it.
const major = Number(process.versions.node.split(".")[0])
if (major < 22) {
  console.error(
    `This is Node ${process.versions.node}; Coppice is developed on Node 24, which \`npm ci\` brings along.\n` +
      "Remedy: run `npm ci` (without --ignore-scripts), then start everything through `npm run` or `npx`."
  )
  process.exit(1)
}
