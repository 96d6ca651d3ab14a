package landlock

// The rights, in the kernel's bits.
const (
	Execute Access = 1 << iota
	WriteFile
	ReadFile
	ReadDir
	RemoveDir
	RemoveFile
	MakeChar
	MakeDir
	MakeReg
	MakeSock
	MakeFifo
	MakeBlock
	MakeSym
	Refer
	Truncate
	IoctlDev
	ResolveUnix

	// AllFS is every file system right of the newest ABI known here.
	AllFS = ResolveUnix<<1 - 1
)

// The usual sets of rights.
const (
	ReadOnly  = ReadFile | ReadDir
	ReadExec  = ReadOnly | Execute
	ReadWrite = AllFS &^ (MakeChar | MakeBlock | IoctlDev)
	// Device has the rights that a device node needs.
	Device = ReadFile | WriteFile | IoctlDev | Truncate
)

// The network rights.
const (
	BindTCP Net = 1 << iota
	ConnectTCP
	BindUDP
	ConnectSendUDP

	// AllNet is every network right of the newest ABI known here.
	AllNet = ConnectSendUDP<<1 - 1
)

// The scopes.
const (
	ScopeAbstractUnix Scope = 1 << iota
	ScopeSignal

	ScopeAll = ScopeAbstractUnix | ScopeSignal
)

// MaxABI is the newest ABI in the table.
const MaxABI = 10

// right is one row of the table: a bit in one of the three sets, and the ABI that introduced it.
type right struct {
	Name  string
	Since int
	FS    Access
	Net   Net
	Scope Scope
}

// table follows Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h. ABI 1 is Linux 5.13, 2 is 5.19, 3 is
// 6.2, 4 is 6.7, 5 is 6.10, 6 is 6.12, 7 is 6.15 (logging, no rights), 8 adds TSYNC (no rights), 9 is 7.1, 10 is 7.2.
var table = [...]right{
	{Name: "execute", Since: 1, FS: Execute},
	{Name: "write_file", Since: 1, FS: WriteFile},
	{Name: "read_file", Since: 1, FS: ReadFile},
	{Name: "read_dir", Since: 1, FS: ReadDir},
	{Name: "remove_dir", Since: 1, FS: RemoveDir},
	{Name: "remove_file", Since: 1, FS: RemoveFile},
	{Name: "make_char", Since: 1, FS: MakeChar},
	{Name: "make_dir", Since: 1, FS: MakeDir},
	{Name: "make_reg", Since: 1, FS: MakeReg},
	{Name: "make_sock", Since: 1, FS: MakeSock},
	{Name: "make_fifo", Since: 1, FS: MakeFifo},
	{Name: "make_block", Since: 1, FS: MakeBlock},
	{Name: "make_sym", Since: 1, FS: MakeSym},
	{Name: "refer", Since: 2, FS: Refer},
	{Name: "truncate", Since: 3, FS: Truncate},
	{Name: "bind_tcp", Since: 4, Net: BindTCP},
	{Name: "connect_tcp", Since: 4, Net: ConnectTCP},
	{Name: "ioctl_dev", Since: 5, FS: IoctlDev},
	{Name: "scope_abstract_unix", Since: 6, Scope: ScopeAbstractUnix},
	{Name: "scope_signal", Since: 6, Scope: ScopeSignal},
	{Name: "resolve_unix", Since: 9, FS: ResolveUnix},
	{Name: "bind_udp", Since: 10, Net: BindUDP},
	{Name: "connect_send_udp", Since: 10, Net: ConnectSendUDP},
}

// fileRights are the rights that a rule for something other than a directory may have (landlock_add_rule(2), EINVAL).
const fileRights = Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix
