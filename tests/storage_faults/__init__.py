"""The store on disks with torn writes, full disks, and failing syncs."""
