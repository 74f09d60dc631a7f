"""The networks: what is trained, decoded and looked into. A change of a network is an edit of a module in this
package."""
