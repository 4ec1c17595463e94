// EXAMPLES
const fs = require("node:fs");
const body = fs.readFileSync("body");
for (const line of fs.readFileSync("cases", "utf8").trimEnd().split("\n")) {
  const [name, secret, ...sent] = line.split("\t");
  const headers = Object.fromEntries(sent.map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)]));
  if (name === "verifyJws") console.log(verifyJws(JSON.parse(fs.readFileSync("jwks")), secret, headers, body));
  else console.log(name === "verify" ? verify(secret, headers, body) : verify(secret, headers, body, 1e9));
}
