//! Where a COMPOUND is: PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH, LOOKUP, LOOKUPP, SECINFO and
//! SECINFO_NO_NAME (RFC 8881 §18.8, §18.13, §18.14, §18.19 to §18.21, §18.27 to §18.29, §18.45).

use nfs_wire::auth::AUTH_SYS;
use nfs_wire::nfs4::Nfsstat4;
use nfs_wire::nfs4::ops::{
    GetfhOk, LookupArgs, PutfhArgs, Secinfo4, SecinfoArgs, SecinfoNoNameArgs, SecinfoOk,
    SecinfoStyle4,
};

use super::attributes::wire_handle;
use super::compound::{Compound, Done, put};
use super::place::Place;

pub(super) async fn putfh(compound: &mut Compound<'_>, args: &PutfhArgs) -> Done {
    let place = Place::of_handle(compound.cx, args.object.as_ref()).await?;
    compound.go_to(place);
    Ok(())
}

/// PUTROOTFH, and PUTPUBFH: what is for everybody is at `/` too (RFC 8881 §18.20.4).
pub(super) async fn putrootfh(compound: &mut Compound<'_>) -> Done {
    let place = Place::root(compound.cx).await?;
    compound.go_to(place);
    Ok(())
}

pub(super) fn getfh(compound: &Compound<'_>, out: &mut Vec<u8>) -> Done {
    let handle = compound.current()?.handle(compound.cx)?;
    let object = wire_handle(&handle).ok_or(Nfsstat4::Serverfault)?;
    put(out, &GetfhOk { object });
    Ok(())
}

pub(super) fn savefh(compound: &mut Compound<'_>) -> Done {
    compound.save()
}

pub(super) fn restorefh(compound: &mut Compound<'_>) -> Done {
    compound.restore()
}

pub(super) async fn lookup(compound: &mut Compound<'_>, args: &LookupArgs<'_>) -> Done {
    let found = compound
        .current()?
        .lookup(compound.cx, args.objname.0)
        .await?;
    compound.go_to(found);
    Ok(())
}

pub(super) async fn lookupp(compound: &mut Compound<'_>) -> Done {
    let found = compound.current()?.parent(compound.cx).await?;
    compound.go_to(found);
    Ok(())
}

/// By which flavors a name can be used. The entry has to be there; the current handle is used up (RFC 8881
/// §18.29.3).
pub(super) async fn secinfo(
    compound: &mut Compound<'_>,
    args: &SecinfoArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    compound.current()?.lookup(compound.cx, args.name.0).await?;
    flavors(compound, out);
    Ok(())
}

pub(super) async fn secinfo_no_name(
    compound: &mut Compound<'_>,
    args: &SecinfoNoNameArgs,
    out: &mut Vec<u8>,
) -> Done {
    let current = compound.current()?;
    match args.style {
        SecinfoStyle4::CurrentFh => {}
        SecinfoStyle4::Parent => drop(current.parent(compound.cx).await?),
    }
    flavors(compound, out);
    Ok(())
}

/// Every export takes the same flavor.
fn flavors(compound: &mut Compound<'_>, out: &mut Vec<u8>) {
    compound.leave();
    let mechanisms = vec![Secinfo4::Flavor(AUTH_SYS)];
    put(out, &SecinfoOk { mechanisms });
}
