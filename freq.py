import numba,time
@numba.njit
def f(n):
    x=1
    for i in range(n): x=(x*3+i)
    return x
f(10)
t=time.perf_counter(); f(10**8); dt=time.perf_counter()-t; print('approx GHz (4 cycles mul+add):', 4e8/dt/1e9)
