#include "textflag.h"

// func readThreadPointer(into uintptr)
TEXT ·readThreadPointer(SB),NOSPLIT,$0-8
	MOVD	into+0(FP), R1
	MRS	TPIDR_EL0, R0
	MOVD	R0, (R1)
	RET
