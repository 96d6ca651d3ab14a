// This file lets the compiler accept a function without a body: the one taken by linkname.
