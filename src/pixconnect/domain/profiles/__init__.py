"""How institutions differ from the central bank's Pix API: one file of data for each, and the module that reads them."""
