#include "textflag.h"

// The entry point of this program, which stands in for the runtime's: DUPOK makes the linker keep the first one that it meets, and package
// main comes first. It calls package entry's begin with the address of argc on a stack below, moves the stack pointer to where begin has
// moved argc, and goes on as the runtime's own does (runtime/rt0_linux_amd64.s). Without it all works, slower: see package entry.
//
// A func value points to the function's address. In Go's register ABI the argument and the first result are in AX, the second one is in BX, and X15 is zero.
// The second result is the entry point of another program that is to go on, or zero.
TEXT _rt0_amd64_linux(SB),NOSPLIT|DUPOK|NOFRAME,$0
	MOVQ	SP, AX
	SUBQ	$64, SP
	XORPS	X15, X15
	MOVQ	github·com∕nsrun∕nsrun∕internal∕sys∕entry·Entered(SB), DX
	MOVQ	(DX), CX
	CALL	CX
	MOVQ	AX, SP
	TESTQ	BX, BX
	JNE	other
	JMP	_rt0_amd64(SB)
other:
	JMP	BX
