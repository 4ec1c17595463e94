/** This package's version, which is also the name that it calls itself by in requests. */
export const VERSION = "0.1.0";
