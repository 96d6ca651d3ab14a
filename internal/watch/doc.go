// Package watch looks at the places of a writable grant by which programs of the host run something (the table of package hostrun), before a command
// runs and after it, compares, and can put them back.
//
//	w := watch.Open(grants, watch.Options{})
//	defer w.Close()
//	... the command runs, and ends with all that it has started ...
//	changes, notes := w.Finish()
//
// Every look goes from a descriptor of the grant's root, which stays open, name by name with O_NOFOLLOW: no symlink is followed, and no string is
// checked first and used later. (openat2's RESOLVE_NO_SYMLINKS does the same in one call; Linux 5.6 has it, and some containers refuse it.) A file is
// opened only if it is regular, and without blocking. The cost is bounded: by the rows of the table, maxEntries names of a directory, maxBytes of a row.
//
// It does not look into nested repositories, nor at what is not in the table. Another sandbox that writes to the same grant at the same time can
// change a place while it is looked at; that sandbox's own look finds the change.
package watch
