package landlock

// fitKernel finds the newest usable ABI, from abi downwards, and the rights of it that the kernel refuses one by one: some vendor kernels
// report an ABI and refuse some of its bits. takes reports whether the kernel accepts a ruleset that handles what r handles.
//
// An ABI is not usable if the kernel refuses all of its rights, or refuses them together but none of them alone.
func fitKernel(abi int, takes func(r Ruleset) bool) (usable int, refused []string) {
	for ; abi > 0; abi-- {
		full := rights(abi)
		if takes(full) {
			return abi, nil
		}
		refused = nil
		for _, row := range table {
			if row.Since <= abi && !takes(Ruleset{HandledFS: row.FS, HandledNet: row.Net, Scoped: row.Scope}) {
				refused = append(refused, row.Name)
			}
		}
		if rest := Without(full, refused); len(refused) > 0 && rest.HandledFS != 0 && takes(rest) {
			return abi, refused
		}
	}
	return 0, nil
}

// rights returns a ruleset that handles every right of ABI abi.
func rights(abi int) Ruleset {
	full, _ := Fit(Ruleset{HandledFS: AllFS, HandledNet: BindTCP | ConnectTCP | BindUDP | ConnectSendUDP, Scoped: ScopeAll}, abi)
	return full
}

// Without returns r without the named rights: it neither handles nor allows them.
func Without(r Ruleset, names []string) Ruleset {
	var gone right
	for _, row := range table {
		for _, name := range names {
			if row.Name == name {
				gone.FS, gone.Net, gone.Scope = gone.FS|row.FS, gone.Net|row.Net, gone.Scope|row.Scope
			}
		}
	}
	out := Ruleset{HandledFS: r.HandledFS &^ gone.FS, HandledNet: r.HandledNet &^ gone.Net, Scoped: r.Scoped &^ gone.Scope}
	for _, p := range r.Paths {
		if p.Access &^= gone.FS; p.Access != 0 {
			out.Paths = append(out.Paths, p)
		}
	}
	for _, p := range r.Ports {
		if p.Access &^= gone.Net; p.Access != 0 {
			out.Ports = append(out.Ports, p)
		}
	}
	return out
}
