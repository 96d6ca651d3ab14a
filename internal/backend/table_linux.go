package backend

import "github.com/nsrun/nsrun/internal/verify"

// stage returns the function that appends the calls of a stage. Only the tables of package verify order the stages, so no other code may
// call these functions; a test of importcheck checks that.
func stage(id verify.StageID) func(*lowering) error {
	return [...]func(*lowering) error{
		verify.AmbientCaps:      (*lowering).ambientCaps,
		verify.Announce:         (*lowering).announce,
		verify.AssertNoUsers:    (*lowering).assertNoUsers,
		verify.AwaitChildren:    (*lowering).awaitChildren,
		verify.Become:           (*lowering).becomeInit,
		verify.Block:            (*lowering).block,
		verify.BoundingSet:      (*lowering).boundingSet,
		verify.Capabilities:     (*lowering).capabilities,
		verify.Cgroup:           (*lowering).joinGroup,
		verify.ClearArguments:   (*lowering).clearArguments,
		verify.ClearUmask:       (*lowering).clearUmask,
		verify.CloseConsumed:    (*lowering).closeConsumed,
		verify.CloseInherited:   (*lowering).closeInherited,
		verify.CloseRest:        (*lowering).closeRest,
		verify.CloseTheirs:      (*lowering).closeTheirs,
		verify.CommandUsers:     (*lowering).commandUsers,
		verify.DeathSignal:      (*lowering).dieWithCaller,
		verify.CloseAll:         (*lowering).descriptors,
		verify.DieWithSubreaper: (*lowering).dieWithSubreaper,
		verify.DieWithWaiter:    (*lowering).dieWithWaiter,
		verify.Directory:        (*lowering).directory,
		verify.End:              (*lowering).endSubreaper,
		verify.EnterNamespaces:  (*lowering).enterNamespaces,
		verify.EnterUsers:       (*lowering).enterUsers,
		verify.Exec:             (*lowering).exec,
		verify.ExecLabel:        (*lowering).execLabel,
		verify.FileLabel:        (*lowering).fileLabel,
		verify.Files:            (*lowering).files,
		verify.FirstMaps:        (*lowering).firstMaps,
		verify.Grants:           (*lowering).grants,
		verify.Handlers:         (*lowering).handlers,
		verify.Handshake:        (*lowering).handshake,
		verify.HostName:         (*lowering).setHostname,
		verify.HostNames:        (*lowering).hostnames,
		verify.InotifyInstances: (*lowering).setMaxInotifyInstances,
		verify.KeepCaps:         (*lowering).keepCapabilities,
		verify.Keyring:          (*lowering).keyring,
		verify.KillScope:        (*lowering).killScope,
		verify.Landlock:         (*lowering).landlock,
		verify.Limits:           (*lowering).setLimits,
		verify.Loopback:         (*lowering).network,
		verify.Maps:             (*lowering).mapIDs,
		verify.Mask:             (*lowering).mask,
		verify.MaxUsers:         (*lowering).setMaxUserNamespaces,
		verify.NewSession:       (*lowering).newSession,
		verify.NoCapabilities:   (*lowering).noCapabilities,
		verify.NoNewPrivs:       (*lowering).noNewPrivs,
		verify.NotDumpable:      (*lowering).notDumpable,
		verify.OpenFiles:        (*lowering).openFiles,
		verify.OpenProc:         (*lowering).openProc,
		verify.Output:           (*lowering).takeOutput,
		verify.OwnNull:          (*lowering).ownNull,
		verify.OwnSession:       (*lowering).ownSession,
		verify.PidMax:           (*lowering).setPidMax,
		verify.RawFilters:       (*lowering).rawFilters,
		verify.Ready:            (*lowering).ready,
		verify.RenewDeathSignal: (*lowering).renewDeathSignal,
		verify.Report:           (*lowering).report,
		verify.RestoreUmask:     (*lowering).restoreUmask,
		verify.Restrict:         (*lowering).restrict,
		verify.Root:             (*lowering).root,
		verify.Ruleset:          (*lowering).ruleset,
		verify.Seccomp:          (*lowering).seccomp,
		verify.SecondUsers:      (*lowering).secondUsers,
		verify.SelfTest:         (*lowering).selfTest,
		verify.Serve:            (*lowering).serve,
		verify.Session:          (*lowering).session,
		verify.Spawn:            (*lowering).spawnCommand,
		verify.StandardFiles:    (*lowering).nullStdio,
		verify.SubreaperStage:   (*lowering).setChildSubreaper,
		verify.SupervisorScope:  (*lowering).supervisorScope,
		verify.SwitchIDs:        (*lowering).switchIDs,
		verify.Terminal:         (*lowering).terminal,
		verify.Unblock:          (*lowering).unblock,
		verify.UnblockChild:     (*lowering).unblockChild,
		verify.UserNamespace:    (*lowering).userNamespace,
		verify.Waiter:           (*lowering).waiter,
		verify.Watcher:          (*lowering).startWatchdog,
		verify.WorkingDirectory: (*lowering).workingDirectory,
	}[id]
}

// stages appends the stages of a table that the process by runs, in the table's order.
func (l *lowering) stages(table []verify.Stage, by verify.Runner) error {
	for _, s := range table {
		if s.By&by == 0 {
			continue
		}
		if err := stage(s.ID)(l); err != nil {
			return err
		}
	}
	return nil
}
