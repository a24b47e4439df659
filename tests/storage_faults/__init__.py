"""The store on disks that tear, fill up, fail and lie."""
