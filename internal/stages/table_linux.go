package stages

import (
	"slices"

	"github.com/nsrun/nsrun/internal/verify"
)

// stage returns the function that appends the calls of a stage. Only the tables of package verify order the stages, so no other code may
// call these functions; a test of importcheck checks that.
func stage(id verify.StageID) func(*Lowering) error {
	return [...]func(*Lowering) error{
		verify.Allow:            (*Lowering).allow,
		verify.AmbientCaps:      (*Lowering).ambientCaps,
		verify.Announce:         (*Lowering).announce,
		verify.AssertNoUsers:    (*Lowering).assertNoUsers,
		verify.AwaitChildren:    (*Lowering).awaitChildren,
		verify.Become:           (*Lowering).becomeInit,
		verify.Block:            (*Lowering).block,
		verify.BoundingSet:      (*Lowering).boundingSet,
		verify.Capabilities:     (*Lowering).capabilities,
		verify.Cgroup:           (*Lowering).joinGroup,
		verify.ClearArguments:   (*Lowering).clearArguments,
		verify.ClearUmask:       (*Lowering).clearUmask,
		verify.CloseConsumed:    (*Lowering).closeConsumed,
		verify.CloseInherited:   (*Lowering).closeInherited,
		verify.CloseRest:        (*Lowering).closeRest,
		verify.CloseTheirs:      (*Lowering).closeTheirs,
		verify.CommandUsers:     (*Lowering).commandUsers,
		verify.DeathSignal:      (*Lowering).dieWithCaller,
		verify.CloseAll:         (*Lowering).descriptors,
		verify.DieWithSubreaper: (*Lowering).dieWithSubreaper,
		verify.DieWithWaiter:    (*Lowering).dieWithWaiter,
		verify.Directory:        (*Lowering).directory,
		verify.End:              (*Lowering).endSubreaper,
		verify.EnterNamespaces:  (*Lowering).enterNamespaces,
		verify.EnterUsers:       (*Lowering).enterUsers,
		verify.Exec:             (*Lowering).exec,
		verify.ExecLabel:        (*Lowering).execLabel,
		verify.FileLabel:        (*Lowering).fileLabel,
		verify.Files:            (*Lowering).files,
		verify.FirstMaps:        (*Lowering).firstMaps,
		verify.Grants:           (*Lowering).grants,
		verify.Handlers:         (*Lowering).handlers,
		verify.Handshake:        (*Lowering).handshake,
		verify.HostName:         (*Lowering).setHostname,
		verify.HostNames:        (*Lowering).hostnames,
		verify.Ignored:          (*Lowering).ignoredSignals,
		verify.InotifyInstances: (*Lowering).setMaxInotifyInstances,
		verify.KeepCaps:         (*Lowering).keepCapabilities,
		verify.Keyring:          (*Lowering).keyring,
		verify.KillScope:        (*Lowering).killScope,
		verify.Landlock:         (*Lowering).landlock,
		verify.Limits:           (*Lowering).setLimits,
		verify.Listen:           (*Lowering).listen,
		verify.Loopback:         (*Lowering).network,
		verify.Maps:             (*Lowering).mapIDs,
		verify.Mask:             (*Lowering).mask,
		verify.MaxUsers:         (*Lowering).setMaxUserNamespaces,
		verify.NewSession:       (*Lowering).newSession,
		verify.NoCapabilities:   (*Lowering).noCapabilities,
		verify.NoNewPrivs:       (*Lowering).noNewPrivs,
		verify.NotDumpable:      (*Lowering).notDumpable,
		verify.OpenFiles:        (*Lowering).openFiles,
		verify.OpenProc:         (*Lowering).openProc,
		verify.Output:           (*Lowering).takeOutput,
		verify.OwnNull:          (*Lowering).ownNull,
		verify.OwnSession:       (*Lowering).ownSession,
		verify.PidMax:           (*Lowering).setPidMax,
		verify.RawFilters:       (*Lowering).rawFilters,
		verify.Ready:            (*Lowering).ready,
		verify.RenewDeathSignal: (*Lowering).renewDeathSignal,
		verify.Report:           (*Lowering).report,
		verify.RestoreUmask:     (*Lowering).restoreUmask,
		verify.Restrict:         (*Lowering).restrict,
		verify.Root:             (*Lowering).root,
		verify.Ruleset:          (*Lowering).ruleset,
		verify.Seccomp:          (*Lowering).seccomp,
		verify.SecondUsers:      (*Lowering).secondUsers,
		verify.SelfTest:         (*Lowering).selfTest,
		verify.Serve:            (*Lowering).serve,
		verify.Session:          (*Lowering).session,
		verify.Spawn:            (*Lowering).spawnCommand,
		verify.StandardFiles:    (*Lowering).nullStdio,
		verify.SubreaperStage:   (*Lowering).setChildSubreaper,
		verify.SupervisorScope:  (*Lowering).supervisorScope,
		verify.SwitchIDs:        (*Lowering).switchIDs,
		verify.Terminal:         (*Lowering).terminal,
		verify.Unblock:          (*Lowering).unblock,
		verify.UnblockChild:     (*Lowering).unblockChild,
		verify.UserNamespace:    (*Lowering).userNamespace,
		verify.Waiter:           (*Lowering).waiter,
		verify.Watcher:          (*Lowering).startWatchdog,
		verify.WorkingDirectory: (*Lowering).workingDirectory,
	}[id]
}

// early reports whether a stage of pid 1 need not be pid 1: it prepares pid 1's namespaces. Package mounts decides which mounts it is true of.
func (l *Lowering) early(s verify.Stage, by verify.Runner) bool {
	switch s.ID {
	case verify.Loopback:
		return by == verify.Pid1 || by == verify.Compat
	case verify.Maps, verify.MaxUsers, verify.InotifyInstances, verify.HostName:
		return by == verify.Pid1
	case verify.OpenProc, verify.FirstMaps, verify.ClearUmask:
		return by == verify.Compat && l.earlyMounts()
	case verify.Root:
		return by == verify.Pid1 || by == verify.Compat && l.earlyMounts()
	}
	return false
}

// earlyMounts reports whether mounts by bubblewrap's rules may be early. They may not where the caller gets a report before the sandbox is set up: it
// may write the id maps then, and expects that nothing is mounted. Nor where files get a label, which is set for the process that makes them, or the command: see closeOwn.
func (l *Lowering) earlyMounts() bool {
	b, has := l.plan.Bwrap, l.plan.Mechanisms
	return !Informs(b) && !Joins(b) && b.FileLabel == "" && b.ExecLabel == "" && has.MountAPI && has.Openat2 && has.CloseRange
}

// Append appends the stages of a table that the process by runs, in the table's order.
func (l *Lowering) Append(table []verify.Stage, by verify.Runner) error {
	before := l.by
	defer func() { l.by = before }()
	for i, s := range table {
		if s.By&by == 0 {
			continue
		}
		l.by = by
		l.Program.MarkEarly(l.early(s, by))
		if err := stage(s.ID)(l); err != nil {
			return err
		}
		l.Program.Publish()
		l.Program.MarkEarly(false)
		if l.early(s, by) && !slices.ContainsFunc(table[i+1:], func(s verify.Stage) bool { return l.early(s, by) }) {
			l.Program.EndEarly()
		}
	}
	return nil
}
