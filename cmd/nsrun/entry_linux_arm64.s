#include "textflag.h"

// See entry_linux_amd64.s. In Go's register ABI the argument and the first result are in R0, the second one is in R1, and R26 has the func value.
TEXT _rt0_arm64_linux(SB),NOSPLIT|DUPOK|NOFRAME,$0
	MOVD	RSP, R0
	SUB	$64, R0, R1
	MOVD	R1, RSP
	MOVD	github·com∕nsrun∕nsrun∕internal∕sys∕entry·Entered(SB), R26
	MOVD	(R26), R1
	CALL	(R1)
	MOVD	R0, RSP
	CBNZ	R1, other
	JMP	_rt0_arm64(SB)
other:
	JMP	(R1)
