"""The networks that are trained, decoded and inspected. To change a network, edit its module here."""
