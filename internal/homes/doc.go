// Package homes keeps home directories for workspaces: one for each, in nsrun's own directory of state.
//
//	h, err := homes.For("/srv/project")
//	release, err := h.Use() // makes it, and keeps others from removing it
//
// $XDG_STATE_HOME/nsrun/home (or ~/.local/state/nsrun/home) has a directory for each workspace, with a name of its own and 0700: the file
// "workspace" in it names the workspace by its real path, and the directory "home" is what a sandbox sees. Everything below that is opened by descriptor,
// without following symlinks (openat2(2), os.Root), since a sandbox may have written it.
//
// The package does not protect one run of a workspace from another: what a run leaves in a kept home, the next one finds.
package homes
