//go:build libseccomp && cgo && linux

package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// CompileOCI compiles a profile in the JSON of Docker and the OCI runtimes with libseccomp, for a program without capabilities. Calls of
// other architectures kill the process. It needs a build with the tag libseccomp; without the tag it returns [errors.ErrUnsupported].
func CompileOCI(data []byte, arch Arch) (Filter, error) {
	var in ociProfile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("seccomp profile: something stands after it")
	}
	otherwise, err := actionOf(in.DefaultAction, in.DefaultErrnoRet)
	if err != nil {
		return nil, fmt.Errorf("seccomp profile: defaultAction: %w", err)
	}
	f, err := lib.NewFilter(otherwise)
	if err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	defer f.Release()
	if err := onlyFor(f, arch); err != nil {
		return nil, fmt.Errorf("seccomp profile for %s: %w", arch, err)
	}
	for i, r := range in.Syscalls {
		if err := r.add(f, arch, otherwise); err != nil {
			return nil, fmt.Errorf("seccomp profile: syscalls[%d]: %w", i, err)
		}
	}
	return export(f)
}

// onlyFor restricts f to one architecture and makes it kill the process at calls of any other.
func onlyFor(f *lib.ScmpFilter, arch Arch) error {
	native, err := lib.GetNativeArch()
	if err != nil {
		return err
	}
	want, ok := map[Arch]lib.ScmpArch{AMD64: lib.ArchAMD64, ARM64: lib.ArchARM64}[arch]
	if !ok {
		return errors.ErrUnsupported
	}
	if want != native {
		if err := errors.Join(f.AddArch(want), f.RemoveArch(native)); err != nil {
			return err
		}
	}
	return errors.Join(f.SetBadArchAction(lib.ActKillProcess), f.SetOptimize(2))
}

// counts reports whether a rule applies to a program without capabilities on this kernel.
func (r *ociRule) counts(arch Arch) (bool, error) {
	if len(r.Includes.Caps) > 0 {
		return false, nil
	}
	for _, k := range []struct {
		at   ociFor
		want bool
	}{{r.Includes, true}, {r.Excludes, false}} {
		if len(k.at.Arches) > 0 && slices.Contains(k.at.Arches, arch.String()) != k.want {
			return false, nil
		}
		if k.at.MinKernel != "" {
			newer, err := kernelIs(k.at.MinKernel)
			if err != nil || newer != k.want {
				return false, err
			}
		}
	}
	return true, nil
}

// kernelIs reports whether the running kernel has at least the version least.
func kernelIs(least string) (bool, error) {
	var want, have [2]int
	if _, err := fmt.Sscanf(least, "%d.%d", &want[0], &want[1]); err != nil {
		return false, fmt.Errorf("minKernel %q is not a version such as 4.8", least)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false, err
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &have[0], &have[1]); err != nil {
		return false, err
	}
	return slices.Compare(have[:], want[:]) >= 0, nil
}

// add adds one rule to f, unless it does not apply or has the default action.
func (r *ociRule) add(f *lib.ScmpFilter, arch Arch, otherwise lib.ScmpAction) error {
	action, err := actionOf(r.Action, r.ErrnoRet)
	if err != nil {
		return fmt.Errorf("action: %w", err)
	}
	if counts, err := r.counts(arch); err != nil || !counts || action == otherwise {
		return err // libseccomp refuses a rule with the default action: EACCES
	}
	var conds []lib.ScmpCondition
	for i, a := range r.Args {
		op, ok := ociOps[a.Op]
		if !ok {
			return fmt.Errorf("args[%d]: op %q is unknown", i, a.Op)
		}
		values := []uint64{a.Value}
		if op == lib.CompareMaskedEqual {
			values = append(values, a.ValueTwo)
		}
		c, err := lib.MakeCondition(uint(a.Index), op, values...)
		if err != nil {
			return fmt.Errorf("args[%d]: %w", i, err)
		}
		conds = append(conds, c)
	}
	names := r.Names
	if r.Name != "" {
		names = append(slices.Clone(names), r.Name)
	}
	for _, name := range names {
		nr, err := lib.GetSyscallFromName(name)
		if err != nil { // newer than libseccomp, or of another architecture: the call gets the default action
			if _, ours := arch.Number(name); (ours || !known(name)) && (otherwise == lib.ActAllow || otherwise == lib.ActLog) {
				return fmt.Errorf("%s is not known to this libseccomp, and would be allowed", name)
			}
			continue
		}
		if len(conds) == 0 {
			err = f.AddRule(nr, action)
		} else {
			err = f.AddRuleConditional(nr, action, conds)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

var ociOps = map[string]lib.ScmpCompareOp{"SCMP_CMP_NE": lib.CompareNotEqual, "SCMP_CMP_LT": lib.CompareLess, "SCMP_CMP_LE": lib.CompareLessOrEqual,
	"SCMP_CMP_EQ": lib.CompareEqual, "SCMP_CMP_GE": lib.CompareGreaterEqual, "SCMP_CMP_GT": lib.CompareGreater, "SCMP_CMP_MASKED_EQ": lib.CompareMaskedEqual}

// actionOf returns the action with this name. It refuses SCMP_ACT_TRACE and SCMP_ACT_NOTIFY, with which another process would answer in the
// kernel's place.
func actionOf(word string, errno *uint) (lib.ScmpAction, error) {
	switch word {
	case "SCMP_ACT_ALLOW":
		return lib.ActAllow, nil
	case "SCMP_ACT_LOG":
		return lib.ActLog, nil
	case "SCMP_ACT_ERRNO":
		code := int16(unix.EPERM)
		if errno != nil {
			if *errno > 4095 {
				return 0, fmt.Errorf("errnoRet %d is no errno", *errno)
			}
			code = int16(*errno)
		}
		return lib.ActErrno.SetReturnCode(code), nil
	case "SCMP_ACT_TRAP":
		return lib.ActTrap, nil
	case "SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD":
		return lib.ActKillThread, nil
	case "SCMP_ACT_KILL_PROCESS":
		return lib.ActKillProcess, nil
	}
	return 0, fmt.Errorf("%q is not one of SCMP_ACT_ALLOW, ERRNO, LOG, TRAP, KILL, KILL_THREAD, KILL_PROCESS", word)
}

// export returns the finished filter as instructions.
func export(f *lib.ScmpFilter) (Filter, error) {
	fd, err := unix.MemfdCreate("bpf", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "bpf")
	defer file.Close()
	if err := f.ExportBPF(file); err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return ParseRaw(raw)
}
