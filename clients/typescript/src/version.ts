/** The version of this package, which requests carry in `User-Agent`. */
export const VERSION = "0.1.0";
