// Marks the files compiled for `require` as CommonJS; the package's own modules are ES modules.
import { writeFileSync } from "node:fs";

writeFileSync(new URL("dist/cjs/package.json", import.meta.url), '{ "type": "commonjs" }\n');
