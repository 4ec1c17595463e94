"""The console: visits, sign-in, forms, templates; features add pages."""
