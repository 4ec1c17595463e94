"""One holder's verbs: through the API, with a client's credentials, as any program of an integrator would."""
