// An allocation that cannot be had is an error that tests ask for, under the address sanitizer too.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
