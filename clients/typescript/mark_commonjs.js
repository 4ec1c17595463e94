// Says of what was compiled for `require` that it is CommonJS, as the package's own modules are not.
import { writeFileSync } from "node:fs";

writeFileSync(new URL("dist/cjs/package.json", import.meta.url), '{ "type": "commonjs" }\n');
