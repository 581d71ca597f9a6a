"""The intermediate representations: nodes, verifiers, printers, readers, interpreters."""
